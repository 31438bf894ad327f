package console

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// An interrupt is reported in words, with its exit code.
func TestExitOfAnInterrupt(t *testing.T) {
	for _, err := range []error{context.Canceled, fmt.Errorf("search for a rate: %w", context.Canceled)} {
		var b strings.Builder
		if code := Exit(&b, "tare", err); code != Interrupted {
			t.Errorf("%v: exit code %d", err, code)
		}
		if got := b.String(); strings.Contains(got, "canceled") || !strings.HasSuffix(got, "interrupted\n") {
			t.Errorf("%v: %q", err, got)
		}
	}
}
