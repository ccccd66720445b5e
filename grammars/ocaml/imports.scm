(open_module module: (_) @module) @import
(include_module module: (_) @module) @import
