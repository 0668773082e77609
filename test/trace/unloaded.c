/* A library to load and unload: two of them differ in their name and their build-id only. */
int gp_unloaded_function(int number);

int gp_unloaded_function(int number)
{
  return number + GP_UNLOADED_NUMBER;
}
