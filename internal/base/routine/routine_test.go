package routine_test

import (
	"errors"
	"os"
	"os/exec"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/test/must"
)

// panics are the ways to a panic, by the value of the variable that chooses one.
var panics = map[string]func(){
	"main": func() {
		defer routine.Report()
		planted()
	},
	"go": func() {
		go routine.Guarded(planted)()
		select {}
	},
	"wait group": func() {
		var all sync.WaitGroup
		all.Go(routine.Guarded(planted))
		all.Wait()
	},
	"error group": func() {
		var all errgroup.Group
		all.Go(routine.Guarded(func() error {
			planted()
			return nil
		}))
		_ = all.Wait()
	},
}

func planted() { panic("planted") }

const chosen = "TARE_ROUTINE_TEST_PANIC"

func TestMain(m *testing.M) {
	if f := panics[os.Getenv(chosen)]; f != nil {
		f()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A panic in any goroutine ends the program with 1, the stack, and a line that asks for a report.
func TestPanicEndsWithOne(t *testing.T) {
	t.Parallel()
	for name := range panics {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), chosen+"="+name)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 {
				t.Errorf("%v, want exit status 1", err)
			}
			must.Contain(t, string(out), "routine_test.planted", "tare: planted", "Please report it")
		})
	}
}

// Results of functions are kept.
func TestGuardedReturns(t *testing.T) {
	want := errors.New("failed")
	if err := routine.Guarded(func() error { return want })(); !errors.Is(err, want) {
		t.Errorf("%v", err)
	}
}
