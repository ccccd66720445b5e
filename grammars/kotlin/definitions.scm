(line_comment) @comment
(block_comment) @comment

(source_file (property_declaration (variable_declaration (identifier) @name)) @definition.variable)
(class_body (property_declaration (variable_declaration (identifier) @name)) @definition.field)
(type_alias type: (identifier) @name) @definition.type
(class_declaration name: (identifier) @name) @definition.class
(class_declaration name: (identifier) @name (class_body) @body) @definition.class
(class_declaration "interface" name: (identifier) @name) @definition.interface
(class_declaration name: (identifier) @name (enum_class_body) @body) @definition.enum
(object_declaration name: (identifier) @name) @definition.object
(class_parameter ["val" "var"] . (identifier) @name) @definition.field
(object_declaration name: (identifier) @name (class_body) @body) @definition.object
(companion_object name: (identifier) @name (class_body) @body) @definition.object
(secondary_constructor "constructor" @name) @definition.constructor
(secondary_constructor "constructor" @name (block) @body) @definition.constructor
(function_declaration name: (identifier) @name) @definition.function
(function_declaration name: (identifier) @name (function_body) @body) @definition.function
(function_declaration (user_type (identifier) @scope) "." name: (identifier) @name (function_body)? @body) @definition.function
(enum_entry . (identifier) @name (class_body)? @body) @definition.field
