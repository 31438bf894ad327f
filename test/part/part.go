// Package part divides the tests of a package among parts of make e2e.
package part

import (
	"flag"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// Variable has the part that runs. Without it all tests run. The cache of go test ignores it: use -count=1.
const Variable = "TARE_TEST_PART"

// Others is the part of the tests that no call of [Of] names.
const Others = "others"

var named = map[string][]string{}

// Of puts tests into a part: var _ = part.Of("alone", TestOne).
func Of(name string, tests ...func(*testing.T)) bool {
	for _, test := range tests {
		full := runtime.FuncForPC(reflect.ValueOf(test).Pointer()).Name()
		named[name] = append(named[name], full[strings.LastIndexByte(full, '.')+1:])
	}
	return true
}

// M runs the tests of the chosen part. With -run, as when a failed test is repeated, it leaves out the other parts.
type M struct{ *testing.M }

// Run is called by TestMain.
func (m M) Run() int {
	if chosen := os.Getenv(Variable); chosen != "" {
		flag.Parse()
		choose(chosen)
	}
	return m.M.Run()
}

func choose(chosen string) {
	if named[chosen] == nil && chosen != Others {
		panic(Variable + ": no test is in part " + chosen)
	}
	run, skip := flag.Lookup("test.run").Value, flag.Lookup("test.skip").Value
	if run.String() == "" && chosen != Others {
		set("test.run", "^("+strings.Join(named[chosen], "|")+")$")
	}
	for name, tests := range named {
		if name != chosen {
			set("test.skip", strings.TrimPrefix(skip.String()+"|^("+strings.Join(tests, "|")+")$", "|"))
		}
	}
}

func set(name, value string) {
	if err := flag.Set(name, value); err != nil {
		panic(err)
	}
}
