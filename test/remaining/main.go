// Command remaining prints the tests that an earlier run with -short did not run whole.
//
//	go run ./test/remaining [-report FILE] PACKAGE...
//
// FILE is the output of `go test -json -short`. The first line of the output is a regular
// expression for -run, the second one the packages that have such tests. Both are empty when
// nothing remains. Without a report everything remains.
//
// A test was run whole if the report has it passed, neither it nor a subtest was skipped, and
// none of them has the attribute "short". A test that does less under -short sets it:
//
//	if testing.Short() {
//		t.Attr("short", "1000 experiments")
//		experiments = 1000
//	}
//
// Tests are read from the source, so a test that the report lacks remains.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "remaining:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, args []string) error {
	flags := flag.NewFlagSet("remaining", flag.ContinueOnError)
	report := flags.String("report", "", "output of `go test -json -short`; empty: none")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("no packages")
	}
	all, err := list(flags.Args())
	if err != nil {
		return err
	}
	done := covered{}
	if *report != "" {
		f, err := os.Open(*report)
		if err != nil {
			return err
		}
		defer f.Close()
		if done, err = read(f); err != nil {
			return fmt.Errorf("%s: %w", *report, err)
		}
	}
	names, packages := done.rest(all)
	if len(names) > 0 {
		fmt.Fprintf(w, "^(%s)$\n%s\n", strings.Join(names, "|"), strings.Join(packages, " "))
		return nil
	}
	_, err = fmt.Fprint(w, "\n\n")
	return err
}

// rest returns the names of the tests that are not covered, and their packages.
func (c covered) rest(all []packageTests) (names, packages []string) {
	for _, p := range all {
		missing := slices.DeleteFunc(slices.Clone(p.tests), func(name string) bool { return c[test{p.path, name}] })
		if len(missing) > 0 {
			names, packages = append(names, missing...), append(packages, p.path)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), packages
}
