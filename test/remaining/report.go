package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// shortAttr is the attribute of a test that does less under -short.
const shortAttr = "short"

// test is a top-level test.
type test struct{ pkg, name string }

// covered has true for each test that ran whole.
type covered map[test]bool

// event is one line of `go test -json`.
type event struct {
	Action, Package, Test string
	Key                   string // of an attribute
}

// read reads a report. A test that failed and passed when repeated is covered.
func read(r io.Reader) (covered, error) {
	passed, shortened := covered{}, covered{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20) // go test splits output at 1 KiB
	for n := 1; lines.Scan(); n++ {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if e.Test == "" {
			continue
		}
		top, _, sub := strings.Cut(e.Test, "/")
		at := test{e.Package, top}
		switch {
		case e.Action == "skip", e.Action == "attr" && e.Key == shortAttr:
			shortened[at] = true
		case e.Action == "pass" && !sub:
			passed[at] = true
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(passed) == 0 {
		return nil, errors.New("no test passed")
	}
	for at := range shortened {
		delete(passed, at)
	}
	return passed, nil
}
