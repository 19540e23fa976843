#!/usr/bin/env bash
# Brings a machine what Cairn needs beside Go: the programs of PostgreSQL 15 or newer, and the extension
# pgvector for them. It installs programs only: it creates, starts, stops and changes no database cluster.
# With the word "kafka" it brings what the tests on real Kafka need instead: Java 17 or newer, and Maven; with the
# word "peers" kcat, which the tests against other people's software need; with the word "typescript" what SQLite is compiled
# with for Node (a C++ compiler, make, Python 3, Node's headers), which the TypeScript device needs; with the word "prometheus" the programs
# prometheus and promtool, which the tests of dashboards and alerts need.
# Safe to run again; does nothing where everything is there. It never asks a question.
set -euo pipefail

say() { printf 'setup: %s\n' "$*"; }

# run COMMAND…: as root, or with sudo where that asks nothing; otherwise the command is kept for the end.
needed=()
run() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif sudo -n true 2>/dev/null; then sudo "$@"
  else needed+=("$(printf '%q ' "$@")")
  fi
}
give_up_if_needed() {
  [ ${#needed[@]} -eq 0 ] && return
  say "this needs rights that this account does not have. Run these as root, then run this again:" >&2
  printf '    %s\n' "${needed[@]}" >&2
  exit 1
}

# The newest PostgreSQL that is installed, as the folder of its programs; empty when there is none.
pg_bin() {
  local dir
  for dir in $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -t/ -k5 -rn) \
             /opt/homebrew/opt/postgresql@{17,16,15}/bin /usr/local/opt/postgresql@{17,16,15}/bin; do
    if [ -x "$dir/postgres" ] && [ -x "$dir/initdb" ] && [ "$(version_of "$dir")" -ge 15 ]; then
      echo "$dir"
      return
    fi
  done
}
version_of() { "$1/postgres" --version | sed -E 's/[^0-9]*([0-9]+).*/\1/'; }
has_vector() {
  local share
  share=$("$1/pg_config" --sharedir 2>/dev/null) || share="/usr/share/postgresql/$(version_of "$1")"
  [ -f "$share/extension/vector.control" ]
}

# quiet COMMAND…: shows what it printed only where it failed.
quiet() {
  local log
  log=$(mktemp)
  "$@" >"$log" 2>&1 || { cat "$log" >&2; rm -f "$log"; say "failed: $*" >&2; exit 1; }
  rm -f "$log"
}

installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }

# apt_install PACKAGE…: those that are missing; what is installed stays at its version.
apt_updated=
apt_install() {
  local package missing=()
  for package in "$@"; do installed "$package" || missing+=("$package"); done
  [ ${#missing[@]} -eq 0 ] && return
  apt_update
  quiet run env DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends --no-upgrade "${missing[@]}"
}
apt_update() {
  [ -n "$apt_updated" ] && return
  quiet run apt-get -q update
  apt_updated=1
}

# Debian's package makes a cluster "main" when it is installed. Ours runs by itself: ask it not to.
install_postgres() {
  local conf=/etc/postgresql-common/createcluster.d/cairn-setup.conf
  apt_install postgresql-common
  give_up_if_needed
  run mkdir -p "$(dirname "$conf")"
  run sh -c "echo 'create_main_cluster = false' > $conf"
  apt_install "$@"
  run rm -f "$conf"
}

# Debian 12 has no package of pgvector: build Debian 13's source with this machine's own mirror and keys.
# The server's headers are unpacked, not installed: installing them would upgrade, and so restart, a
# PostgreSQL that may be in use.
build_pgvector() {
  local version=$1 bin="/usr/lib/postgresql/$1/bin" mirror keyring apt
  apt_install gcc make libc6-dev
  give_up_if_needed
  for keyring in /usr/share/keyrings/debian-archive-keyring.{gpg,pgp}; do [ -f "$keyring" ] && break; done
  mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | grep -E '^(deb |URIs:)' |
    grep -oE 'https?://[^ ]+/debian/?( |$)' | head -1 | tr -d ' ' || true)
  if [ -z "$mirror" ]; then
    say "apt's sources name no Debian mirror (a URI that ends in /debian): add one, then run this again" >&2
    exit 1
  fi
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  mkdir -p "$scratch"/{lists/partial,cache/archives/partial,src,dev}
  echo "deb-src [signed-by=$keyring] $mirror trixie main" > "$scratch/sources.list"
  if [ "$(id -u)" = 0 ]; then chown -R _apt "$scratch" && chmod 755 "$scratch"; fi
  apt=(-q -o "Dir::Etc::sourcelist=$scratch/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State::lists=$scratch/lists" -o "Dir::Cache=$scratch/cache" -o Acquire::Languages=none)
  say "fetching the source of pgvector and the headers of PostgreSQL $version"
  quiet apt-get "${apt[@]}" update
  (cd "$scratch/src" && quiet apt-get "${apt[@]}" source --download-only pgvector && tar xf pgvector_*.orig.tar.* --strip-components=1)
  (cd "$scratch/dev" && quiet apt-get -q -o APT::Sandbox::User=root download "postgresql-server-dev-$version" libpq-dev && for f in ./*.deb; do dpkg-deb -x "$f" .; done)
  cat > "$scratch/pg_config" <<WRAPPER
#!/bin/sh
case "\$1" in
  --includedir-server) echo "$scratch/dev/usr/include/postgresql/$version/server" ;;
  --includedir|--pkgincludedir) echo "$scratch/dev/usr/include/postgresql" ;;
  *) exec "$bin/pg_config" "\$@" ;;
esac
WRAPPER
  chmod +x "$scratch/pg_config"
  say "building pgvector"
  # OPTFLAGS: the library must run on every processor that an image of this machine is copied to.
  local make=(make -s -C "$scratch/src" OPTFLAGS= with_llvm=no "PG_CONFIG=$scratch/pg_config")
  quiet "${make[@]}"
  run "${make[@]}" install >/dev/null
  give_up_if_needed
}

debian() {
  local bin version
  bin=$(pg_bin)
  if [ -z "$bin" ]; then
    version=$(apt-cache search --names-only '^postgresql-[0-9]+$' 2>/dev/null | sed -E 's/^postgresql-([0-9]+) .*/\1/' | sort -rn | head -1)
    if [ -z "$version" ]; then
      apt_update
      give_up_if_needed
      version=$(apt-cache search --names-only '^postgresql-[0-9]+$' | sed -E 's/^postgresql-([0-9]+) .*/\1/' | sort -rn | head -1)
    fi
    say "installing PostgreSQL ${version:-15}"
    install_postgres "postgresql-${version:-15}"
    give_up_if_needed
    bin=$(pg_bin)
  fi
  version=$(version_of "$bin")
  if has_vector "$bin"; then
    say "PostgreSQL $version and pgvector are there"
    return
  fi
  if apt-cache show "postgresql-$version-pgvector" >/dev/null 2>&1; then
    say "installing pgvector for PostgreSQL $version"
    apt_install "postgresql-$version-pgvector"
  else
    say "pgvector for PostgreSQL $version is built from source: this takes a minute or two, once"
    build_pgvector "$version"
  fi
  give_up_if_needed
  has_vector "$bin" || { say "pgvector is still missing for $bin" >&2; exit 1; }
  say "PostgreSQL $version and pgvector are there"
}

# java_version: the number of the Java that is there, 0 for none.
java_version() {
  { java -version 2>&1 || true; } | sed -nE 's/.*version "([0-9]+).*/\1/p' | head -1 | grep . || echo 0
}

# Java and Maven, for `make test-kafka`.
kafka() {
  local package
  if [ "$(java_version)" -ge 17 ] && command -v mvn >/dev/null; then
    say "Java $(java_version) and Maven are there"
    return
  fi
  case "$(uname -s)" in
    Darwin)
      command -v brew >/dev/null || { say "needs Homebrew (https://brew.sh). With it: brew install openjdk@17 maven" >&2; exit 1; }
      HOMEBREW_NO_AUTO_UPDATE=1 brew install openjdk@17 maven
      return ;;
  esac
  command -v apt-get >/dev/null || { say "this script knows Debian, Ubuntu and macOS. Install Java 17 or newer and Maven, then go on." >&2; exit 1; }
  if [ "$(java_version)" -lt 17 ]; then
    say "installing Java"
    apt_update
    give_up_if_needed
    package=$(apt-cache search --names-only '^openjdk-(17|21)-jre-headless$' | cut -d' ' -f1 | sort | head -1)
    apt_install "${package:-default-jre-headless}"
  fi
  command -v mvn >/dev/null || { say "installing Maven"; apt_install maven; }
  give_up_if_needed
  [ "$(java_version)" -ge 17 ] || { say "java is version $(java_version), and Kafka wants 17: choose it with update-alternatives" >&2; exit 1; }
  say "Java $(java_version) and Maven are there"
}

macos() {
  if ! command -v brew >/dev/null; then
    say "needs Homebrew (https://brew.sh). With it: brew install postgresql@17 pgvector" >&2
    exit 1
  fi
  local bin
  bin=$(pg_bin)
  if [ -n "$bin" ] && has_vector "$bin"; then
    say "PostgreSQL and pgvector are there"
    return
  fi
  say "installing PostgreSQL 17 and pgvector with Homebrew"
  HOMEBREW_NO_AUTO_UPDATE=1 brew install postgresql@17 pgvector
}

# kcat, for `make test-peers`.
peers() {
  if command -v kcat >/dev/null; then
    say "kcat is there"
    return
  fi
  say "installing kcat"
  case "$(uname -s)" in
    Darwin)
      command -v brew >/dev/null || { say "needs Homebrew (https://brew.sh). With it: brew install kcat" >&2; exit 1; }
      HOMEBREW_NO_AUTO_UPDATE=1 brew install kcat
      return ;;
  esac
  command -v apt-get >/dev/null || { say "this script knows Debian, Ubuntu and macOS. Install kcat, then go on." >&2; exit 1; }
  apt_install kcat
  give_up_if_needed
}

# What npm compiles better-sqlite3 with, for `make test-typescript`. Node itself is whoever's choice it is.
typescript() {
  local node_version headers packages=(g++ make python3)
  node_version=$(node --version 2>/dev/null | sed -nE 's/^v([0-9]+).*/\1/p')
  if [ "${node_version:-0}" -lt 20 ]; then
    say "Node 20 or newer is needed (https://nodejs.org): install it, then go on" >&2
    exit 1
  fi
  # Beside the program, as Node's own archive and most packages have them; npm fetches them where they are missing.
  headers=$(dirname "$(dirname "$(readlink -f "$(command -v node)")")")/include/node/node.h
  if [ -f "$headers" ] && command -v g++ >/dev/null && command -v make >/dev/null && command -v python3 >/dev/null; then
    say "Node $node_version and what compiles for it are there"
    return
  fi
  case "$(uname -s)" in
    Darwin)
      xcode-select -p >/dev/null 2>&1 || { say "needs the command line tools. Run: xcode-select --install" >&2; exit 1; }
      return ;;
  esac
  command -v apt-get >/dev/null || { say "this script knows Debian, Ubuntu and macOS. Install a C++ compiler, make and Python 3, then go on." >&2; exit 1; }
  if [ ! -f "$headers" ] && installed nodejs && apt-cache show libnode-dev >/dev/null 2>&1; then packages+=(libnode-dev); fi
  apt_install "${packages[@]}"
  give_up_if_needed
  say "Node $node_version and what compiles for it are there"
}

# prometheus and promtool, for `make test-prometheus`. The package would start a server beside; only its programs are taken.
prometheus() {
  local scratch
  if type -P prometheus >/dev/null && type -P promtool >/dev/null; then
    say "prometheus and promtool are there"
    return
  fi
  say "installing prometheus and promtool"
  case "$(uname -s)" in
    Darwin)
      command -v brew >/dev/null || { say "needs Homebrew (https://brew.sh). With it: brew install prometheus" >&2; exit 1; }
      HOMEBREW_NO_AUTO_UPDATE=1 brew install prometheus
      return ;;
  esac
  command -v apt-get >/dev/null || { say "this script knows Debian, Ubuntu and macOS. Install prometheus and promtool, then go on." >&2; exit 1; }
  apt_update
  give_up_if_needed
  scratch=$(mktemp -d)
  trap "rm -rf '$scratch'" EXIT
  (cd "$scratch" && quiet apt-get -q -o APT::Sandbox::User=root download prometheus && dpkg-deb -x ./prometheus_*.deb .)
  run install -m 755 "$scratch/usr/bin/prometheus" "$scratch/usr/bin/promtool" /usr/local/bin/
  give_up_if_needed
  type -P promtool >/dev/null || { say "/usr/local/bin is not where programs are looked for: add it to PATH" >&2; exit 1; }
}

case "${1:-}" in
  kafka|peers|prometheus|typescript) "$1"; exit 0 ;;
esac
case "$(uname -s)" in
  Darwin) macos ;;
  Linux)
    if command -v apt-get >/dev/null; then debian; else
      say "this script knows Debian, Ubuntu and macOS. Install PostgreSQL 15 or newer and pgvector, then go on." >&2
      exit 1
    fi ;;
  *) say "this script knows Debian, Ubuntu and macOS" >&2; exit 1 ;;
esac
