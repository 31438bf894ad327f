// Package must ends a test at an error that it does not expect.
package must

import "testing"

// OK ends the test if err is not nil.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Get returns the value of a call that must succeed: must.Get(os.ReadFile(path))(t).
// Go passes the results of a call only to a function without other arguments, so the test is that of a second call.
func Get[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		OK(t, err)
		return value
	}
}
