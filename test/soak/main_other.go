//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "soak: it needs the namespaces of Linux")
	os.Exit(2)
}
