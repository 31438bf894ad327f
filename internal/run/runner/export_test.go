package runner

// Ramp is [ramp], for the tests that are not in this package.
const Ramp = ramp

// Promptly is [promptly], for the same.
const Promptly = promptly
