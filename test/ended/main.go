// Command ended fails if a process of a test died, by reports of `go test -json`.
//
//	go run ./test/ended REPORT...
//
// gotestsum runs the tests again that failed or were running, and those may pass. Tests that the process had not begun
// are run by nobody. Such a process leaves a test without an end, or its package fails without a failed test.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

func main() {
	if err := check(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "ended:", err)
		os.Exit(1)
	}
}

func check(w io.Writer, reports []string) error {
	if len(reports) == 0 {
		return errors.New("no reports")
	}
	died := 0
	for _, path := range reports {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		all, err := read(f)
		f.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, line := range all {
			fmt.Fprintln(w, line)
		}
		died += len(all)
	}
	if died > 0 {
		return fmt.Errorf("%d tests or packages whose process died: it was killed, ran out of memory or ended itself", died)
	}
	return nil
}

// event is a line of `go test -json`, by cmd/test2json. Test is empty for events of the package.
type event struct{ Action, Package, Test string }

type test struct{ pkg, name string }

// read returns a line for each test without an end, and for each package that failed without a failed test.
func read(r io.Reader) (died []string, err error) {
	open := map[test]int{}      // runs without an end
	failed := map[string]bool{} // packages with a failed test since their start
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		if len(line) > 0 && json.Unmarshal(line, &e) != nil {
			return nil, fmt.Errorf("no event: %.80s", line)
		}
		switch {
		case e.Action == "start":
			failed[e.Package] = false
		case e.Action == "run":
			open[test{e.Package, e.Test}]++
		case e.Test != "" && (e.Action == "pass" || e.Action == "skip" || e.Action == "fail"):
			open[test{e.Package, e.Test}]--
			failed[e.Package] = failed[e.Package] || e.Action == "fail"
		case e.Action == "fail" && !failed[e.Package]:
			died = append(died, e.Package+": failed without a failed test")
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	for t, runs := range open {
		if runs > 0 {
			died = append(died, t.pkg+"."+t.name+": did not end")
		}
	}
	slices.Sort(died)
	return died, nil
}
