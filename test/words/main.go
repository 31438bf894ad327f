// Command words checks the prose of the repository against a list of words.
//
//	go run ./test/words            every finding
//	go run ./test/words PATH...    findings in these files and directories
//	go run ./test/words -commits main..
//	                               findings in the messages of the newest 20 commits
//
// It reads Go comments, Go string literals, Go names, Markdown pages, comments
// and texts of scripts, HTML, YAML files and Makefiles. The rules are data, in
// words.yaml. A finding is one line: file:line:column, the word, the word to
// write instead. The exit code is 1 when there are findings.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	code, err := run(os.Stdout, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "words:", err)
		os.Exit(2)
	}
	os.Exit(code)
}

func run(w io.Writer, args []string) (int, error) {
	flags := flag.NewFlagSet("words", flag.ContinueOnError)
	root := flags.String("root", ".", "the repository's directory")
	list := flags.String("rules", "test/words/words.yaml", "the word list, relative to the root")
	commits := flags.String("commits", "", "check the newest commit messages of this range instead, such as main..")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0, nil
	} else if err != nil {
		return 2, nil
	}
	rules, err := readRules(filepath.Join(*root, filepath.FromSlash(*list)))
	if err != nil {
		return 0, err
	}
	if *commits != "" {
		blocks, err := readCommits(*root, *commits)
		if err != nil {
			return 0, err
		}
		return printFindings(w, rules.strict().check(blocks).findings, "in the messages of "+*commits), nil
	}
	blocks, err := readTree(*root, rules.Skip)
	if err != nil {
		return 0, err
	}
	result := rules.check(blocks)
	if paths := flags.Args(); len(paths) > 0 {
		return printFindings(w, result.under(paths), "under "+strings.Join(paths, ", ")), nil
	}
	return exitCode(result.print(w, rules)), nil
}

// printFindings writes findings and their number, and returns the exit code.
func printFindings(w io.Writer, found []finding, where string) int {
	for _, f := range found {
		fmt.Fprintln(w, f)
	}
	fmt.Fprintf(w, "%d findings %s\n", len(found), where)
	return exitCode(len(found))
}

func exitCode(findings int) int {
	if findings > 0 {
		return 1
	}
	return 0
}
