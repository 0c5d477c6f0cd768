"""What users may say: frozen option classes, read from a YAML file with flags on top, and checked.

This room does not act on an option. It looks at no input, output or model, and it does not know
Beam, whose own options it passes on as text.
"""
