package check

// MaxHeader is the size in bytes of status line and header, interim answers
// included, beyond which a response is given up: room for every honest answer,
// and an end to a server that never stops sending header.
const MaxHeader = 64 << 10

// maxKept bounds the bytes of a body that are kept for checks.
const maxKept = 1 << 20
