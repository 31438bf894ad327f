package main

import (
	"fmt"
	"os/exec"
	"strings"
)

// maxCommits is the number of commits whose messages are read: the newest ones of a range.
const maxCommits = 20

// readCommits reads the messages of a range of commits, such as main.., as pages. Each paragraph is a block.
func readCommits(root, span string) ([]*block, error) {
	git := exec.Command("git", "-C", root, "log", "--no-merges", fmt.Sprintf("--max-count=%d", maxCommits), "--format=%h%n%B%x00", span, "--")
	out, err := git.Output()
	if err != nil {
		return nil, fmt.Errorf("read the commits of %s: %w", span, err)
	}
	var all []*block
	for commit := range strings.SplitSeq(string(out), "\x00") {
		id, message, _ := strings.Cut(strings.TrimSpace(commit), "\n")
		blocks, err := readMarkdown(id, []byte(message))
		if err != nil {
			return nil, err
		}
		all = append(all, blocks...)
	}
	return all, nil
}

// strict returns the rules without those that allow a share of sentences: messages are too few for shares.
func (r *rules) strict() *rules {
	s := &rules{SentenceWords: r.SentenceWords}
	for _, rule := range r.Rules {
		if rule.Share == 0 {
			s.Rules = append(s.Rules, rule)
		}
	}
	return s
}
