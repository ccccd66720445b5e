((function_call name: (identifier) @_require arguments: (arguments . (string) @module)) @import (#any-of? @_require "require" "dofile" "loadfile"))
((variable_declaration (assignment_statement (variable_list . name: (identifier) @alias)
  (expression_list . value: (function_call name: (identifier) @_require arguments: (arguments . (string))) @import)))
  (#set! imported "*") (#eq? @_require "require"))
