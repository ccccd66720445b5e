(comment) @comment
(block_comment) @comment
(annotation) @attached

(val_definition pattern: (identifier) @name value: (_)? @body) @definition.variable
(var_definition pattern: (identifier) @name value: (_)? @body) @definition.variable
(val_declaration name: (identifier) @name) @definition.variable
(var_declaration name: (identifier) @name) @definition.variable
(type_definition name: (type_identifier) @name) @definition.type
(class_definition name: (identifier) @name) @definition.class
(class_definition name: (identifier) @name body: (_) @body) @definition.class
(trait_definition name: (identifier) @name body: (_)? @body) @definition.trait
(object_definition name: (identifier) @name body: (_)? @body) @definition.object
(enum_definition name: (identifier) @name body: (_) @body) @definition.enum
(given_definition name: (identifier) @name body: (_)? @body) @definition.object
(function_declaration name: (identifier) @name) @definition.function
(function_declaration name: (operator_identifier) @name) @definition.function
(function_definition name: [(identifier) (operator_identifier)] @name body: (_) @body) @definition.function
((call_expression function: (call_expression function: (identifier) @_call arguments: (arguments . (string) @name))
  arguments: (_) @body) @definition.test
  (#any-of? @_call "test" "it" "describe" "scenario" "feature" "property"))
(simple_enum_case name: (identifier) @name) @definition.field
(full_enum_case name: (identifier) @name) @definition.field
