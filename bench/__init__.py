"""What the product costs, measured against the bare engines under it in one and the same run: `make bench`.

Not shipped and not imported by the product. See ``bench/__main__.py`` for the command and ``bench/measures`` for the measures.
"""
