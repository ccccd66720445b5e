(import_statement name: (dotted_name) @module @import)
(import_statement name: (aliased_import name: (dotted_name) @module alias: (identifier) @alias) @import)
(import_from_statement module_name: (dotted_name) @module) @import
(import_from_statement module_name: (relative_import (import_prefix) @relative)) @import
(import_from_statement module_name: (relative_import (dotted_name) @module)) @import
(import_from_statement name: (dotted_name) @imported) @import
(import_from_statement name: (aliased_import name: (dotted_name) @imported alias: (identifier) @alias)) @import
(import_from_statement (wildcard_import) @imported) @import
