"""What a party's process has set before the step, outside the state: values of modules, and settings of the process."""
