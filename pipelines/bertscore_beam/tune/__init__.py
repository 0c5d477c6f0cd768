"""`tune`: which model, layer and weighting agrees best with judgements of people.

judgements --read, check--> parts of usable rows --one pass of all layers--> scores of every
setting --agreement--> tables, a picture, and the recommended layers
"""
