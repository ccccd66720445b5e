(import_spec path: (_) @module) @import
((import_spec name: (_) @alias path: (_) @module) @import (#set! imported ""))
