# Install and export: find_package(heddle) gives heddle::heddle.
