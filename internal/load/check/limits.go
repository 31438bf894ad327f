package check

// MaxHeader bounds the status line and header of a response, interim responses
// included, in bytes. It ends a response whose header is endless.
const MaxHeader = 64 << 10

// maxKept bounds the bytes of a body that are kept for checks.
const maxKept = 1 << 20
