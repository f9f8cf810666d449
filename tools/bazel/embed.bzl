"""Files as C++ string literals, so that a program can write them out wherever it runs."""

def weft_embed(name, src, visibility = None):
    """name: the file to include where the text is wanted, NAME.inc. src: a text file."""
    native.genrule(
        name = name.replace(".", "_"),
        srcs = [src],
        outs = [name],
        cmd = "(echo 'R\"weft_source('; cat $<; echo ')weft_source\"') > $@",
        visibility = visibility,
    )
