(type_constructor_path . (type_constructor) @reference.type .)
(type_constructor_path (_) @qualifier (type_constructor) @reference.type)
(module_type_path (module_type_name) @reference.type)
