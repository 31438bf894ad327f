package hint_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/tare-mesh/tare/internal/base/hint"
)

type typed struct {
	hint.Hinted
	Code int
}

func TestOf(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"nil":              {nil, ""},
		"plain":            {errors.New("x"), ""},
		"own":              {hint.New("do this", "no %s", "file"), "do this"},
		"wrapped":          {fmt.Errorf("outer: %w", hint.New("do this", "x")), "do this"},
		"outermost first":  {hint.Wrap(hint.New("inner", "x"), "outer"), "outer"},
		"empty is skipped": {hint.Wrap(hint.New("inner", "x"), ""), "inner"},
		"embedded":         {fmt.Errorf("outer: %w", &typed{Hinted: hint.Hinted{Err: fs.ErrExist, Text: "choose another"}, Code: 3}), "choose another"},
	} {
		if got := hint.Of(c.err); got != c.want {
			t.Errorf("%s: hint %q, want %q", name, got, c.want)
		}
	}
}

func TestChainIsKept(t *testing.T) {
	err := hint.New("do this", "read: %w", fs.ErrNotExist)
	if !errors.Is(err, fs.ErrNotExist) || err.Error() != "read: file does not exist" {
		t.Errorf("got %v", err)
	}
	if hint.Wrap(nil, "x") != nil {
		t.Error("Wrap(nil) is an error")
	}
	if (&hint.Hinted{}).Error() != "" {
		t.Error("the zero value has a message")
	}
}
