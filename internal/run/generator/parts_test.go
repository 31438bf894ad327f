package generator

import (
	"reflect"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
)

// ofOneProcess are fields that no external generator sets, so that parts have nothing to add.
var ofOneProcess = map[string]bool{"Routes": true, "Stream": true, "Slices": true, "SliceCounts": true, "Verdict": true, "Capacity": true, "Figures": true}

// A count of several processes is the sum of theirs, and no field is taken over from one of them unnoticed.
func TestAddedHasEveryField(t *testing.T) {
	part := func(n int64) (l result.Load) {
		v := reflect.ValueOf(&l).Elem()
		for i := range v.NumField() {
			if !ofOneProcess[v.Type().Field(i).Name] {
				fill(v.Field(i), n)
			}
		}
		return l
	}
	l := added([]result.Load{part(3), part(5)}, load.Profile{Rate: 100, Connections: 4})
	set := map[string]int64{"Connections": 4, "Workers": 2}
	v := reflect.ValueOf(l)
	for i := range v.NumField() {
		name, got := v.Type().Field(i).Name, v.Field(i)
		if got.IsZero() != ofOneProcess[name] {
			t.Errorf("%s is %v: added needs a rule for it", name, got)
		}
		if !ofOneProcess[name] {
			checkSum(t, name, got, set[name])
		}
	}
}

// fill sets counts to n, and other values to any that are not zero.
func fill(v reflect.Value, n int64) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(1000+n, 0)))
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case v.Kind() == reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, n)
		fill(value, n)
		v.SetMapIndex(key, value)
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case v.CanInt():
		v.SetInt(n)
	case v.CanFloat():
		v.SetFloat(float64(n))
	case v.Kind() == reflect.String:
		v.SetString("x")
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	}
}

// checkSum checks that every count is 3+5, or the value that follows from the whole load.
func checkSum(t *testing.T, name string, v reflect.Value, set int64) {
	t.Helper()
	switch {
	case v.Kind() == reflect.Pointer && v.Type().Elem().Kind() != reflect.Float64 && !v.IsNil():
		checkSum(t, name, v.Elem(), set)
	case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]():
		for i := range v.NumField() {
			checkSum(t, name+"."+v.Type().Field(i).Name, v.Field(i), set)
		}
	case v.Kind() == reflect.Map && v.Type().Elem().Kind() == reflect.Int64:
		for _, key := range v.MapKeys() {
			checkSum(t, name, v.MapIndex(key), set)
		}
	case v.CanInt():
		want := int64(8)
		if set != 0 {
			want = set
		}
		if v.Int() != want {
			t.Errorf("%s is %d, want %d", name, v.Int(), want)
		}
	}
}
