# shellcheck shell=bash
# package_version PACKAGER VERSION prints a version of git as the packagers deb, rpm, apk, wheel and npm order it. A release
# candidate is before its release, a later commit after its tag (npm: equal to it), and a commit without a tag before every release.
package_version() {
  local packager=$1 version=${2#v} base pre='' commits='' later='' dirty=''
  if [[ $version == *-dirty ]]; then
    version=${version%-dirty} dirty=dirty
  fi
  if ! [[ $version =~ ^[0-9]+\.[0-9] ]]; then
    if [ "$packager" = apk ]; then dirty=''; fi # only a hash is valid
    if [ "$packager" = wheel ]; then
      echo "0.0.0.dev0+$version${dirty:+.$dirty}"
      return
    fi
    if [ "$packager" = npm ]; then # no number may begin with 0
      echo "0.0.0-g$version${dirty:+.$dirty}"
      return
    fi
    echo "0.0.0~$version${dirty:+.$dirty}"
    return
  fi
  if [[ $version =~ ^(.+)-([0-9]+)-(g[0-9a-f]+)$ ]]; then # of git describe
    version=${BASH_REMATCH[1]} commits=${BASH_REMATCH[2]} later=$commits.${BASH_REMATCH[3]}
  fi
  base=${version%%-*}
  if [ "$base" != "$version" ]; then pre=${version#*-}; fi
  if [ "$packager" = apk ]; then # 1.0.0_rc1_p5
    echo "$base${pre:+_${pre//[.-]/}}${commits:+_p$commits}"
    return
  fi
  if [ "$packager" = wheel ]; then # 1.0.0rc1.post5+gabc1234
    later=${later#*.}${dirty:+${later:+.}$dirty}
    echo "$base${pre//[.-]/}${commits:+.post$commits}${later:++$later}"
    return
  fi
  later+=${dirty:+${later:+.}$dirty}
  if [ "$packager" = npm ]; then
    echo "$base${pre:+-$pre}${later:++$later}"
    return
  fi
  echo "$base${pre:+~${pre//-/.}}${later:++$later}"
}
