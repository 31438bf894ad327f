//go:build !linux

// Command benchload measures tare's load engine beside other load generators. It
// needs Linux: processors to pin to, and the kernel's own receive time stamps.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "benchload: it needs Linux")
	os.Exit(1)
}
