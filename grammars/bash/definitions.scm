(comment) @comment

(program (variable_assignment name: (variable_name) @name) @definition.variable)
(program (declaration_command (variable_assignment name: (variable_name) @name)) @definition.variable)
(function_definition name: (word) @name body: (_) @body) @definition.function
((command name: (command_name) @_test argument: (string) @name) @definition.test (#eq? @_test "@test"))
((command name: (command_name) @_alias argument: [(word) @name (concatenation . (word) @name)]) @definition.alias
  (#eq? @_alias "alias") (#like? @name "="))
