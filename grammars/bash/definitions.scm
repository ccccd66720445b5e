(comment) @comment

(program (variable_assignment name: (variable_name) @name) @definition.variable)
(program (declaration_command (variable_assignment name: (variable_name) @name)) @definition.variable)
(function_definition name: (word) @name body: (_) @body) @definition.function
((command name: (command_name) @_test argument: (string) @name) @definition.test (#eq? @_test "@test"))
