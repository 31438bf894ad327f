// Package must ends a test at an error that it does not expect.
package must

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// OK ends the test if err is not nil.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Get returns the value of a call that must succeed: must.Get(os.ReadFile(path))(t).
// Go passes all results of a call only to a function without other arguments, so a second call takes the test.
func Get[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		OK(t, err)
		return value
	}
}

// Err returns the error of a call that has a value too.
func Err[T any](_ T, err error) error { return err }

// Fail reports an error of a call that must fail: if it is nil or lacks text. The other arguments name the case.
func Fail(t testing.TB, err error, text string, about ...any) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%serror %v, want one with %q", strings.TrimLeft(strings.TrimSpace(fmt.Sprintln(about...))+": ", ": "), err, text)
	}
}

// Match reports an error other than the wanted one: with text, or none if text is empty. The other arguments name the case.
func Match(t testing.TB, err error, text string, about ...any) {
	t.Helper()
	if text != "" {
		Fail(t, err, text, about...)
	} else if err != nil {
		t.Errorf("%s: %v", strings.TrimSpace(fmt.Sprintln(about...)), err)
	}
}

// File writes a file and its directories, and returns its path.
func File(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
	OK(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// Contain reports the texts that are missing in a text.
func Contain(t testing.TB, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
}
