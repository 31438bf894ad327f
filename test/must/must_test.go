package must

import (
	"errors"
	"fmt"
	"testing"
)

// recorder has the error that ends its test.
type recorder struct {
	testing.TB
	fatal  []any
	errors string
}

func (r *recorder) Helper()                           {}
func (r *recorder) Fatal(args ...any)                 { r.fatal = args }
func (r *recorder) Errorf(format string, args ...any) { r.errors = fmt.Sprintf(format, args...) }

func TestErrorEndsTheTest(t *testing.T) {
	r := &recorder{TB: t}
	OK(r, nil)
	if v := Get(1, nil)(r); v != 1 || r.fatal != nil {
		t.Errorf("value %d, ended by %v", v, r.fatal)
	}
	wrong := errors.New("wrong")
	if OK(r, wrong); len(r.fatal) != 1 || r.fatal[0] != wrong {
		t.Errorf("OK: ended by %v", r.fatal)
	}
	r.fatal = nil
	if Get(1, wrong)(r); len(r.fatal) != 1 || r.fatal[0] != wrong {
		t.Errorf("Get: ended by %v", r.fatal)
	}
}

func TestFail(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{errors.New("it is wrong"), ""},
		{errors.New("it is missing"), `case 1: error it is missing, want one with "wrong"`},
		{nil, `case 1: error <nil>, want one with "wrong"`},
	} {
		r := &recorder{TB: t}
		if Fail(r, test.err, "wrong", "case", 1); r.errors != test.want {
			t.Errorf("%v: reported %q, want %q", test.err, r.errors, test.want)
		}
	}
}

func TestContain(t *testing.T) {
	r := &recorder{TB: t}
	if Contain(r, "one, two", "one", "two"); r.errors != "" {
		t.Errorf("reported %q", r.errors)
	}
	if Contain(r, "one", "one", "two"); r.errors != "there is no \"two\" in\none" {
		t.Errorf("reported %q", r.errors)
	}
}
