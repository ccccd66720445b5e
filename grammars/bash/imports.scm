((command name: (command_name (word) @_source) . argument: (_) @module) @import (#any-of? @_source "source" "."))
