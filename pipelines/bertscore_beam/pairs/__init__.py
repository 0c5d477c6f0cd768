"""BERTScore for other people's pipelines: a model handler for RunInference, and a transform.

This room scores the pairs it is given. It reads no files and knows no plans or output folders.
"""
