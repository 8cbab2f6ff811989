# Whole programs with two queues on devices that run one by default (Caps::queues).
add_test(NAME conformance_queues COMMAND heddle_tests_conformance --gtest_filter=RandomGraphs.*:*CheckpointTraining*:*BudgetTraining*)
set_tests_properties(conformance_queues PROPERTIES LABELS conformance ENVIRONMENT "HEDDLE_QUEUES=2")
