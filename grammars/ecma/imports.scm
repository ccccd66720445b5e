(import_statement source: (string) @module) @import
((import_statement (import_clause (identifier) @alias)) @import (#set! imported "default"))
((import_statement (import_clause (namespace_import (identifier) @alias))) @import (#set! imported "*"))
(import_statement (import_clause (named_imports
  (import_specifier name: (_) @imported !alias)))) @import
(import_statement (import_clause (named_imports
  (import_specifier name: (_) @imported alias: (_) @alias)))) @import
(export_statement source: (string) @module) @import
(export_statement (export_clause (export_specifier name: (_) @imported)) source: (_)) @import

((call_expression function: (identifier) @_call arguments: (arguments . (string) @module .)) @import
  (#eq? @_call "require"))
((variable_declarator name: (identifier) @alias
  value: (call_expression function: (identifier) @_call arguments: (arguments . (string) .)) @import)
  (#set! imported "*") (#eq? @_call "require"))
((variable_declarator name: (object_pattern (shorthand_property_identifier_pattern) @imported)
  value: (call_expression function: (identifier) @_call arguments: (arguments . (string) .)) @import)
  (#eq? @_call "require"))
((variable_declarator name: (object_pattern (pair_pattern key: (_) @imported value: (identifier) @alias))
  value: (call_expression function: (identifier) @_call arguments: (arguments . (string) .)) @import)
  (#eq? @_call "require"))
(call_expression function: (import) arguments: (arguments . (string) @module)) @import
