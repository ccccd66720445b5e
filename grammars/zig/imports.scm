((builtin_function (builtin_identifier) @_import (arguments (string) @module)) @import (#eq? @_import "@import"))
((variable_declaration (identifier) @alias (builtin_function (builtin_identifier) @_import (arguments (string))) @import)
  (#set! imported "*") (#eq? @_import "@import"))
((variable_declaration (identifier) @alias
  (field_expression object: (builtin_function (builtin_identifier) @_import (arguments (string))) @import member: (_) @imported))
  (#eq? @_import "@import"))
