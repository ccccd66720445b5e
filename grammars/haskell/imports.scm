(import module: (module) @module) @import
((import alias: (module) @alias) @import (#set! imported ""))
(import names: (import_list name: (import_name variable: (variable) @imported))) @import
(import names: (import_list name: (import_name type: (name) @imported))) @import
