((identifier) @reference.call . (selector (argument_part)))
((identifier) @qualifier . (selector (unconditional_assignable_selector (identifier) @reference.call)) . (selector (argument_part)))
((selector (unconditional_assignable_selector (identifier) @reference.call)) . (selector (argument_part)))
(superclass (type_identifier) @reference.inherit)
(mixins (type_identifier) @reference.inherit)
(interfaces (type_identifier) @reference.inherit)
(type_identifier) @reference.type
