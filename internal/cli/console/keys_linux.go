package console

import "golang.org/x/sys/unix"

// Requests for the state of a terminal.
const (
	getTerminal = unix.TCGETS
	setTerminal = unix.TCSETS
)
