// Command words checks the prose of the repository against the list of words in words.yaml.
//
//	go run ./test/words            all files
//	go run ./test/words PATH...    findings in these files and directories
//	go run ./test/words -commits main..
//	                               messages of the newest 20 commits of a range
//
// A finding is one line: file:line:column, the word, and the word to write instead. The exit code is 1 if there are
// findings.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

func main() {
	findings, err := run(os.Stdout, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "words:", err)
		os.Exit(2)
	}
	os.Exit(min(findings, 1))
}

func run(w io.Writer, args []string) (findings int, err error) {
	flags := flag.NewFlagSet("words", flag.ContinueOnError)
	commits := flags.String("commits", "", "check the newest 20 commit messages of this range instead, such as main..")
	if err := flags.Parse(args); err != nil {
		return 0, err
	}
	list, err := readList("test/words/words.yaml")
	if err != nil {
		return 0, err
	}
	var all []text
	if *commits != "" {
		list.Rules = slices.DeleteFunc(list.Rules, func(r rule) bool { return r.Share > 0 }) // messages are too few
		all, err = readCommits(*commits)
	} else {
		all, err = readFiles(list.Skip)
	}
	if err != nil {
		return 0, err
	}
	found := slices.DeleteFunc(list.check(all), func(f finding) bool { return !under(f.file, flags.Args()) })
	for _, f := range found {
		fmt.Fprintf(w, "%s:%d:%d: %s\n", f.file, f.line, f.column, f.message)
	}
	fmt.Fprintf(w, "%d findings\n", len(found))
	return len(found), nil
}

// list is the file of words.
type list struct {
	SentenceWords map[kind]int `yaml:"sentence_words"` // the largest number of words in a sentence
	Skip          []string     // files and directories that are not checked
	Rules         []rule
}

type rule struct {
	Not, But, Except string
	In               []kind  // empty: comments, docs and messages
	Share            float64 // the word is allowed in this percentage of the sentences of a kind, over all files

	not, except *regexp.Regexp
}

func readList(file string) (l list, err error) {
	f, err := os.Open(file)
	if err != nil {
		return l, err
	}
	defer f.Close()
	d := yaml.NewDecoder(f)
	d.KnownFields(true)
	if err := d.Decode(&l); err != nil {
		return l, fmt.Errorf("%s: %w", file, err)
	}
	for i := range l.Rules {
		r := &l.Rules[i]
		if r.Not == "" || r.But == "" {
			return l, fmt.Errorf("%s: rule %d needs not and but", file, i+1)
		}
		if len(r.In) == 0 {
			r.In = []kind{comments, docs, messages}
		}
		var bad error
		r.not, err = wholeWords(r.Not)
		r.except, bad = wholeWords(cmp.Or(r.Except, "never matched ")) // a word does not end after a space
		if err := errors.Join(err, bad); err != nil {
			return l, fmt.Errorf("%s: %w", file, err)
		}
	}
	return l, nil
}

// wholeWords matches words in any case. A space in the pattern matches any white space, line breaks included.
func wholeWords(pattern string) (*regexp.Regexp, error) {
	return regexp.Compile(`(?i)\b(?:` + strings.ReplaceAll(pattern, " ", `\s+`) + `)\b`)
}

type finding struct {
	file         string
	line, column int
	message      string
}

// sentenceEnd matches the end of a sentence: a full stop, an empty line or a list item.
var sentenceEnd = regexp.MustCompile(`[.!?][)"'*_]*(?:\s|$)|\n[ \t]*\n|\n[ \t]*(?:[-*]|\d+\.) `)

func (l list) check(all []text) (found []finding) {
	sentences := map[kind]int{}
	for _, t := range all {
		if t.kind == names {
			continue
		}
		begin := 0
		for _, end := range append(sentenceEnd.FindAllIndex(t.prose, -1), []int{len(t.prose), len(t.prose)}) {
			n := len(strings.Fields(strings.Trim(string(t.prose[begin:end[0]]), " \t\n-*")))
			if n > 0 {
				sentences[t.kind]++
			}
			if limit := l.SentenceWords[t.kind]; n > limit && limit > 0 {
				found = append(found, t.finding(begin, fmt.Sprintf("sentence of %d words: write at most 25, never more than %d", n, limit)))
			}
			begin = end[1]
		}
	}
	for _, r := range l.Rules {
		for _, k := range r.In {
			uses := r.uses(all, k)
			if share := 100 * float64(len(uses)) / float64(max(1, sentences[k])); r.Share == 0 || share > r.Share {
				found = append(found, uses...)
			}
		}
	}
	slices.SortFunc(found, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.file, b.file), a.line-b.line, a.column-b.column, cmp.Compare(a.message, b.message))
	})
	return found
}

func (r rule) uses(all []text, k kind) (found []finding) {
	for _, t := range all {
		if t.kind != k {
			continue
		}
		for _, at := range r.not.FindAllIndex(t.prose, -1) {
			if slices.ContainsFunc(r.except.FindAllIndex(t.prose, -1), func(a []int) bool { return a[0] <= at[0] && at[1] <= a[1] }) {
				continue
			}
			message := fmt.Sprintf("%q: write %s", strings.Join(strings.Fields(string(t.prose[at[0]:at[1]])), " "), r.But)
			if r.Share > 0 {
				message += fmt.Sprintf(" (more than %g %% of the sentences of %s)", r.Share, k)
			}
			found = append(found, t.finding(at[0], message))
		}
	}
	return found
}

func under(file string, dirs []string) bool {
	return len(dirs) == 0 || slices.ContainsFunc(dirs, func(d string) bool {
		d = path.Clean(strings.TrimSuffix(d, "..."))
		return d == "." || file == d || strings.HasPrefix(file, d+"/")
	})
}

// readFiles reads the prose below the current directory. Hidden files and directories other than .ci and .github,
// testdata, and those in skip are left out.
func readFiles(skip []string) (all []text, err error) {
	return all, filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		hidden := strings.HasPrefix(d.Name(), ".") && !slices.Contains([]string{".", ".ci", ".github"}, file)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (hidden || d.Name() == "testdata" || slices.Contains(skip, file)):
			return filepath.SkipDir
		case d.IsDir() || hidden || slices.Contains(skip, file):
			return nil
		}
		read := reader(file)
		if read == nil {
			return nil
		}
		source, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, t := range read(file, source) {
			all = append(all, t.parts()...)
		}
		return nil
	})
}

// readCommits reads messages as pages that are named for their commits.
func readCommits(span string) (all []text, err error) {
	out, err := exec.Command("git", "log", "--no-merges", "--max-count=20", "--format=%h%n%B%x00", span, "--").Output()
	if err != nil {
		return nil, fmt.Errorf("read the commits of %s: %w", span, err)
	}
	for commit := range strings.SplitSeq(string(out), "\x00") {
		id, message, _ := strings.Cut(strings.TrimSpace(commit), "\n")
		all = append(all, readMarkdown(id, []byte(message))[0].parts()...)
	}
	return all, nil
}
