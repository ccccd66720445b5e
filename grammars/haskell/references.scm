(apply function: (variable) @reference.call)
(apply function: (qualified module: (_) @qualifier id: (variable) @reference.call))
(apply function: (constructor) @reference.call)
(infix operator: (operator) @reference.call)
(infix left_operand: (variable) @reference.call)
(instance name: (name) @reference.inherit)
(deriving (tuple (name) @reference.inherit))
(name) @reference.type
