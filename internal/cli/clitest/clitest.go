// Package clitest has commands for scripts of testscript.
package clitest

import (
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"
)

// Exits is the command
//
//	exits CODE COMMAND…       run a command that must exit with CODE
func Exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND…")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if err != nil {
		code = -1
		if e, ok := err.(interface{ ExitCode() int }); ok {
			code = e.ExitCode()
		}
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, expected %s (%v)", code, args[0], err)
	}
}
