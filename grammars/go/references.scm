(call_expression function: (identifier) @reference.call)
(call_expression function: (selector_expression operand: (_) @qualifier field: (_) @reference.call))
(qualified_type package: (_) @qualifier name: (type_identifier) @reference.type)
(type_identifier) @reference.type
(struct_type (field_declaration_list (field_declaration !name type: (type_identifier) @reference.inherit)))
(struct_type (field_declaration_list (field_declaration !name type: (pointer_type (type_identifier) @reference.inherit))))
