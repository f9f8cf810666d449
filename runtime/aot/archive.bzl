"""One archive that holds libraries with all that they depend on, for programs that are linked outside this workspace."""

def _static_archive_impl(ctx):
    archives = []
    for dep in ctx.attr.deps:
        for linker_input in dep[CcInfo].linking_context.linker_inputs.to_list():
            for library in linker_input.libraries:
                archive = library.pic_static_library or library.static_library
                if archive and archive not in archives:
                    archives.append(archive)
    excluded = []
    for dep in ctx.attr.without:
        for linker_input in dep[CcInfo].linking_context.linker_inputs.to_list():
            for library in linker_input.libraries:
                excluded.append(library.pic_static_library or library.static_library)
    archives = [archive for archive in archives if archive not in excluded]
    output = ctx.actions.declare_file("lib" + ctx.label.name + ".a")

    # System archives are found where the compiler finds them.
    ctx.actions.run_shell(
        inputs = archives,
        outputs = [output],
        mnemonic = "StaticArchive",
        use_default_shell_env = True,
        command = """
set -e
{
  echo "create $1"
  shift
  while [ "$1" != -- ]; do echo "addlib $1"; shift; done
  shift
  for name in "$@"; do
    folder=$(dirname "$(${CC:-cc} -print-file-name=libabsl_base.a)")
    for archive in "$folder"/$name; do echo "addlib $archive"; done
  done
  echo save
  echo end
} | ar -M
""",
        arguments = [output.path] + [archive.path for archive in archives] + ["--"] + ctx.attr.system_archives,
    )
    return [DefaultInfo(files = depset([output]))]

static_archive = rule(
    implementation = _static_archive_impl,
    attrs = {
        "deps": attr.label_list(providers = [CcInfo]),
        "without": attr.label_list(providers = [CcInfo], doc = "what another archive of the same link brings"),
        "system_archives": attr.string_list(doc = "file names, with wildcards, in the folder of the system's static libraries"),
    },
)
