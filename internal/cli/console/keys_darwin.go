package console

import "golang.org/x/sys/unix"

// Requests for the state of a terminal.
const (
	getTerminal = unix.TIOCGETA
	setTerminal = unix.TIOCSETA
)
