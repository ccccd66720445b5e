(comment) @comment

(function_declaration name: (identifier) @name) @definition.function
(function_declaration name: (identifier) @name body: (block) @body) @definition.function
(method_declaration
  receiver: (parameter_list (parameter_declaration type: [
    (type_identifier) @scope
    (generic_type type: (type_identifier) @scope)
    (pointer_type (type_identifier) @scope)
    (pointer_type (generic_type type: (type_identifier) @scope))]))
  name: (field_identifier) @name
  body: (block)? @body) @definition.method

(type_spec name: (type_identifier) @name type: (_) @body) @definition.type
(type_spec name: (type_identifier) @name type: (struct_type) @body) @definition.struct
(type_spec name: (type_identifier) @name type: (interface_type) @body) @definition.interface
(struct_type (field_declaration_list (field_declaration name: (field_identifier) @name) @definition.field))
(type_alias name: (type_identifier) @name) @definition.type
(interface_type (method_elem name: (field_identifier) @name) @definition.method)

(source_file (const_declaration (const_spec . name: (identifier) @name value: (_)? @body) @definition.constant))
(source_file (var_declaration (var_spec . name: (identifier) @name value: (_)? @body) @definition.variable))
(source_file (var_declaration (var_spec_list (var_spec . name: (identifier) @name value: (_)? @body) @definition.variable)))
