package runner

// Ramp exports ramp to external tests.
const Ramp = ramp

// Promptly exports promptly to external tests.
const Promptly = promptly
