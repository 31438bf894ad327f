package must

import (
	"errors"
	"testing"
)

// recorder has the error that ends its test.
type recorder struct {
	testing.TB
	fatal []any
}

func (r *recorder) Helper()           {}
func (r *recorder) Fatal(args ...any) { r.fatal = args }

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
