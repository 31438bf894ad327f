package console

import (
	"bytes"
	"fmt"
	"testing"
)

func TestFold(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"short line\n", "short line\n"},
		{"  a hint: one two three four\n", "  a hint: one two\n      three four\n"},
		{"µµµµ µµµµ µµµµ µµµµ µ\n", "µµµµ µµµµ µµµµ µµµµ\n    µ\n"},
		{"aWordThatIsWiderThanTheLine yes\n", "aWordThatIsWiderThanTheLine yes\n"},
	} {
		if got := Fold(c.line, 20); got != c.want {
			t.Errorf("%q: %q, want %q", c.line, got, c.want)
		}
	}
}

// A text that ends within a line is written whole, and a command to copy keeps its line.
func TestFoldedEnd(t *testing.T) {
	t.Setenv("COLUMNS", "20")
	var b bytes.Buffer
	w, end := Folded(&b)
	fmt.Fprint(w, "one two three four five\n  tare run one two three four five\nno end")
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if want := "one two three four\n    five\n  tare run one two three four five\nno end"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

// Paragraphs fill the width, and indented lines stay apart.
func TestParagraphs(t *testing.T) {
	const text = "one two\nthree four five six\n\n  item: seven eight nine ten\n  b\nend"
	if got, want := Paragraphs(text, 20), "one two three four\nfive six\n\n  item: seven eight\n      nine ten\n  b\nend"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Paragraphs(text, 0); got != text {
		t.Errorf("%q", got)
	}
}
