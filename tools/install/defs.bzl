"""libweft.so, and the tree that programs and extensions outside this workspace are built against."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

# The archives that a library has whole.
_WholeArchives = provider(fields = ["archives"])

def _is_ours(owner):
    return owner.workspace_name == ""

def _weft_library_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    elsewhere = {
        archive: True
        for library in ctx.attr.beside
        for archive in library[_WholeArchives].archives.to_list()
    }
    whole, flags, archives = [], [], []
    for dep in ctx.attr.deps:
        for linker_input in dep[CcInfo].linking_context.linker_inputs.to_list():
            # The sealed library brings LLVM as archives instead.
            if ctx.files.hidden_archives and linker_input.owner.workspace_name == "llvm":
                continue
            for flag in linker_input.user_link_flags:
                if flag not in flags:
                    flags.append(flag)
            for library in linker_input.libraries:
                archive = library.pic_static_library or library.static_library
                if archive and _is_ours(linker_input.owner) and archive not in elsewhere:
                    archives.append(archive)
                    # Whole: what no function of ours calls is there for users and plugins.
                    whole.append(cc_common.create_library_to_link(
                        actions = ctx.actions,
                        feature_configuration = features,
                        cc_toolchain = toolchain,
                        pic_static_library = archive,
                        alwayslink = True,
                    ))
    own_flags = ["-Wl,-soname,lib%s.so" % ctx.attr.library]
    if ctx.attr.beside:
        own_flags.append("-Wl,-rpath,$ORIGIN")
    if ctx.files.hidden_archives:
        own_flags += ["-Wl,--start-group"] + [archive.path for archive in ctx.files.hidden_archives] + ["-Wl,--end-group", "-Wl,--gc-sections"] + ctx.attr.hidden_linkopts
    inputs = list(ctx.files.hidden_archives)
    if ctx.file.exports:
        own_flags.append("-Wl,--version-script=" + ctx.file.exports.path)
        inputs.append(ctx.file.exports)
    linked = cc_common.link(
        name = ctx.attr.folder + "/" + ctx.attr.library,
        actions = ctx.actions,
        feature_configuration = features,
        cc_toolchain = toolchain,
        output_type = "dynamic_library",
        additional_inputs = inputs,
        linking_contexts = [cc_common.create_linking_context(linker_inputs = depset([
            cc_common.create_linker_input(
                owner = ctx.label,
                libraries = depset(whole),
                user_link_flags = depset(own_flags + flags),
            ),
        ]))] + [library[CcInfo].linking_context for library in ctx.attr.beside],
    )
    library = linked.library_to_link.resolved_symlink_dynamic_library or linked.library_to_link.dynamic_library
    return [
        DefaultInfo(files = depset([library]), runfiles = ctx.runfiles([library])),
        _WholeArchives(archives = depset(archives)),
        CcInfo(
            compilation_context = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps]).compilation_context,
            linking_context = cc_common.create_linking_context(linker_inputs = depset([
                cc_common.create_linker_input(
                    owner = ctx.label,
                    libraries = depset([linked.library_to_link]),
                    user_link_flags = depset(flags),
                ),
            ])),
        ),
    ]

weft_library = rule(
    doc = "One shared library of all of `deps`. Targets that depend on it see the headers of `deps` and link the library instead of their archives.",
    implementation = _weft_library_impl,
    attrs = {
        "deps": attr.label_list(providers = [CcInfo]),
        "library": attr.string(doc = "its name", default = "weft"),
        "beside": attr.label_list(doc = "libraries of this kind that it needs: it has nothing of what they have", providers = [_WholeArchives]),
        "folder": attr.string(doc = "where the library goes, below this package", mandatory = True),
        "hidden_archives": attr.label_list(allow_files = [".a"], doc = "linked into the library in place of the shared LLVM"),
        "hidden_linkopts": attr.string_list(doc = "what the archives need"),
        "exports": attr.label(allow_single_file = True, doc = "a version script"),
        "_cc_toolchain": attr.label(default = Label("@bazel_tools//tools/cpp:current_cc_toolchain")),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

def _place(header):
    """Where a header stands in the tree of includes; None for what is not for users."""
    if "_virtual_includes/" in header.path:
        return header.path.split("_virtual_includes/")[1].partition("/")[2]
    for private in ["frontend/", "tests/", "third_party/", "tools/", "examples/", "benchmarks/"]:
        if header.short_path.startswith(private):
            return None
    return header.short_path

def _install_tree_impl(ctx):
    tree = ctx.actions.declare_directory(ctx.label.name)
    copies = {}
    for dep in ctx.attr.deps:
        for header in dep[CcInfo].compilation_context.headers.to_list():
            place = _place(header)
            wanted = not ctx.attr.only or (place and place.split("/")[0] in ctx.attr.only)
            if _is_ours(header.owner) and place and wanted:
                copies["include/weft/" + place] = header
    for target, place in ctx.attr.files.items():
        for file in target.files.to_list():
            copies[place + "/" + (file.short_path if place.startswith("include/") else file.basename)] = file
    listing = ctx.actions.declare_file(ctx.label.name + ".list")
    ctx.actions.write(listing, "".join(["%s %s\n" % (file.path, place) for place, file in sorted(copies.items())]))
    ctx.actions.run_shell(
        inputs = copies.values() + [listing],
        outputs = [tree],
        mnemonic = "InstallTree",
        command = 'while read -r from to; do mkdir -p "$2/${to%/*}" && cp -L "$from" "$2/$to" && chmod u+w "$2/$to" || exit 1; done < "$1"',
        arguments = [listing.path, tree.path],
    )
    return [DefaultInfo(files = depset([tree]), runfiles = ctx.runfiles([tree]))]

install_tree = rule(
    doc = "A folder as PREFIX of tools/install.sh becomes: the headers of `deps`, and `files` in the folders that are given for them.",
    implementation = _install_tree_impl,
    attrs = {
        "deps": attr.label_list(providers = [CcInfo]),
        "files": attr.label_keyed_string_dict(allow_files = True),
        "only": attr.string_list(doc = "the folders of includes to install; empty for all"),
    },
)
