// Package proc represents a command as data. It prints the command for pasting into a
// shell, runs it and stops it. tare starts every process here, so that none outlives it.
package proc

import (
	"io"
	"os"
	"time"
)

// Command is a process to be started. Nothing in it goes through a shell.
type Command struct {
	Path  string     // absolute, or looked up on PATH
	Args  []string   // without the program's name
	Env   []string   // added to the environment tare itself has, "K=V"
	Dir   string     // working directory, empty for tare's own
	Files []*os.File // inherited as descriptors 3, 4, …
	CPUs  string     // processors it may run on, as taskset writes them, empty for any
	// At is the start time, by the clock of the host that runs it. Zero means now.
	// Only load workers in pods wait for it.
	At time.Time
	// Stdin is read to its end. Nil is empty.
	Stdin io.Reader
	// Log receives stdout and stderr (path, created 0600, appended to), but stdout only if Stdout is nil.
	Log string
	// MaxLog is about the max size of Log: a longer one loses its middle. 0: no limit.
	MaxLog int64
	// Tree ends the descendants of the process with it, in other sessions too. They inherit a
	// mark. It is for programs of users.
	Tree bool
	// Stdout, where set, receives standard output instead of Log.
	Stdout io.Writer
}
